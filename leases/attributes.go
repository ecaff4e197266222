package leases

// The attributes of a row that are KCL's. Their names and types are fixed: Java workers read and write them.
const (
	attrKey             = "leaseKey"                           // S, the table's only key
	attrOwner           = "leaseOwner"                         // S, absent if nobody owns
	attrCounter         = "leaseCounter"                       // N
	attrSwitches        = "ownerSwitchesSinceCheckpoint"       // N
	attrCheckpoint      = "checkpoint"                         // S
	attrSub             = "checkpointSubSequenceNumber"        // N
	attrPending         = "pendingCheckpoint"                  // S
	attrPendingSub      = "pendingCheckpointSubSequenceNumber" // N
	attrPendingState    = "pendingCheckpointState"             // B
	attrParents         = "parentShardId"                      // SS, in spite of its name
	attrChildren        = "childShardIds"                      // SS
	attrStartHash       = "startingHashKey"                    // S, decimal
	attrEndHash         = "endingHashKey"                      // S, decimal
	attrThroughput      = "throughputKBps"                     // N
	attrCheckpointOwner = "checkpointOwner"                    // S
	attrEntityType      = "entityType"                         // S
	attrStream          = "streamName"                         // S, multi-stream mode
	attrShard           = "shardId"                            // S, multi-stream mode
)

// The attributes of a row that are ours. Java workers ignore and keep them.
const (
	attrTenure    = "tenure"        // M
	attrHandoffTo = "handoffTo"     // S
	attrStartAt   = "startAtMillis" // N
	attrStreamARN = "streamArn"     // S, of a table's stream
)

// The members of the tenure map.
const (
	tenureWorker   = "worker"         // S
	tenureNonce    = "nonce"          // S
	tenureAt       = "at"             // N
	tenureFailover = "failoverMillis" // N
	tenureMax      = "max"            // N, absent: no limit
	tenureZone     = "zone"           // S, absent: none
	tenureLeaving  = "leaving"        // BOOL, absent: false
)

// entityLease is the entityType of a lease; rows made by KCL before 3.5 have none.
const entityLease = "LEASE"

// knownEntities are the other entities that KCL 3.5 keeps in the lease table.
var knownEntities = map[string]bool{
	"LEADER": true, "CLIENT_VERSION_MIGRATION": true, "TABLE_MIGRATION": true, "WORKER_METRIC_STATS": true, "STREAM": true,
}
