"""Schema alignment with language-model embeddings (FedLLM-Align): parties whose columns differ train one head."""
