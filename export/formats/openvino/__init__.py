"""Run SavedModels and TFLite files in OpenVINO, which shares no code with TensorFlow."""
