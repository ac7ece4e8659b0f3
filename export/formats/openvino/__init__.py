"""OpenVINO, a second opinion on SavedModels and TFLite files."""
