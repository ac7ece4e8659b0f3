"""Write, quantize, read and run TFLite files."""
