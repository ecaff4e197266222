package main

import (
	"fmt"
	"strconv"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// payment is what a record says.
type payment struct {
	at      checkpoint.ExtendedSequenceNumber
	account string
	amount  int64
}

func paymentsOf(records []processor.Record) ([]payment, error) {
	payments := make([]payment, 0, len(records))
	for _, r := range records {
		amount, err := strconv.ParseInt(string(r.Data), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("record %v: %w", r.Position(), err)
		}
		payments = append(payments, payment{r.Position(), r.PartitionKey, amount})
	}
	return payments, nil
}
