package kinesis

// CreateStream adds a provisioned stream that is ACTIVE at once.
func (k *Kinesis) CreateStream(name string, shards int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.init()
	if _, err := k.call("CreateStream", &request{StreamName: name, ShardCount: &shards}); err != nil {
		return err
	}
	k.streams[name].busy = ""
	return nil
}

func (e *Error) Error() string { return e.Code + ": " + e.Msg }
