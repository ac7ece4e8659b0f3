"""The format TFLite: exporter, quantization, file, runners and worker scripts."""
