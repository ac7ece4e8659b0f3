"""The format ONNX: exporter, file, runner and worker scripts."""
