"""What a TensorFlow server needs beside the SavedModel, and clients that ask it."""

from keras_norm.export.serving.client import Client
from keras_norm.export.serving.config import write_batching_parameters, write_models_config
from keras_norm.export.serving.grpc_client import GrpcClient
from keras_norm.export.serving.rest_client import RestClient
from keras_norm.export.serving.warmup import warmup_requests

__all__ = [
    "Client",
    "GrpcClient",
    "RestClient",
    "warmup_requests",
    "write_batching_parameters",
    "write_models_config",
]
