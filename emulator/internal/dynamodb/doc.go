// Package dynamodb answers what a DynamoDB table would have said: the table, item, query, batch and transaction
// calls that a lease table, its neighbours and their tests need, kept in memory.
//
// What it knows it does as the service documents it, limits and error texts included. What it does not know, be it an
// operation, a parameter or a value, it refuses with a typed error that names the thing; there are no silent wrong answers.
// DynamoDB Streams of the tables are there, too (stream.go). Left out are backups other than the flag of point-in-time recovery, local secondary indexes, global tables, PartiQL.
// Every read is consistent; only the secondary indexes can be made to lag. Expired items (UpdateTimeToLive) stay, as they do
// at the service for up to some days.
//
// # Map
//
//	service.go    the DynamoDB type, dispatch, the HTTP answer
//	decode.go     bodies to objects     params.go   strict access to them  output.go  answers
//	value.go      attribute values      number.go   38-digit decimals     fields.go  items and maps
//	lexer.go      words of expressions  reserved.go those not to be names
//	parser.go     conditions            binder.go   placeholders, cache
//	condition.go  evaluation            update.go   update expressions    path.go    document paths, projection
//	legacy.go     Expected, AttributeUpdates, ScanFilter, KeyConditions
//	ordered.go    ordered keys          table.go    one table             index.go   secondary indexes
//	schema.go     CreateTable's rules   control.go  table calls           settings.go  recovery, expiry, tags
//	write.go      Put, Update, Delete   read.go     Get, Query, Scan      query.go   key conditions
//	stream.go     a table's stream      streamcalls.go  DynamoDB Streams' own calls
//	batch.go      batches               transact.go transactions          capacity.go  units, throttling, counts
//
// # Concurrency
//
// A stored row is immutable: a write puts a new one in its place. So requests are decoded, and answers encoded, outside the
// one mutex; under it a call on one item costs a few look-ups. That mutex makes every write atomic, transactions included.
//
// Nothing runs in the background: states with a duration (CREATING, an index's lag) are worked out from the time of the call.
package dynamodb
