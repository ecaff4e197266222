package emulator

import "fmt"

// RollTableStream closes all open shards of a DynamoDB table's stream and lets one follow each, as the service does about every four
// hours. It returns the ids of those that follow. The error says that the table has no enabled stream.
func (s *Server) RollTableStream(table string) (children []string, err error) {
	children, err = s.dynamodb.ReshardStream(table, "", 1)
	if err != nil {
		return nil, fmt.Errorf("roll the shards of the stream of table %q: %w", table, err)
	}
	return children, nil
}

// SplitTableStream closes an open shard of a DynamoDB table's stream and lets two follow, each of which gets about half of the
// items, as the service does when it splits a partition of the table; with an empty id it splits all open shards. It returns the ids of those that follow. The error says
// that the table has no enabled stream, or that stream no such open shard.
func (s *Server) SplitTableStream(table, shardID string) (children []string, err error) {
	children, err = s.dynamodb.ReshardStream(table, shardID, 2)
	if err != nil {
		return nil, fmt.Errorf("split shard %q of the stream of table %q: %w", shardID, table, err)
	}
	return children, nil
}
