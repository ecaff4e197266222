package checkpoint

// Checkpointer is what user code checkpoints with.
type Checkpointer struct{}
