"""Write, read and run ONNX files."""
