"""Run SavedModels and TFLite files in OpenVINO, an independent implementation."""
