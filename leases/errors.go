package leases

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/shardlease/shardlease/checkpoint"
)

// ErrLeaseLost is what a write fails with if its condition does not hold and the row shows that it is not ours: somebody
// else has the lease, or nobody, or the row is gone. It is the same value as [checkpoint.ErrLeaseLost].
var ErrLeaseLost = checkpoint.ErrLeaseLost

// DuplicateWorkerError says that another process with our worker id wrote the row of a lease that we hold. It wraps
// [ErrLeaseLost]. Two processes with one id would regain each other's leases for ever, so the older one has to stop.
type DuplicateWorkerError struct {
	Worker, Key              string
	OurNonce, TheirNonce     string // see [Tenure.Nonce]
	OurProcess, TheirProcess string // host and process id, as "host (process 12)"
}

func (e *DuplicateWorkerError) Error() string {
	return fmt.Sprintf("lease %s: another process with worker id %q has it: here is %s, the other one is %s; give each process a WorkerID of its own",
		e.Key, e.Worker, e.OurProcess, e.TheirProcess)
}

func (e *DuplicateWorkerError) Unwrap() error { return ErrLeaseLost }

// RegressError is what [Table.Update] fails with if the row's checkpoint lies beyond the one to be written. Nothing was
// written. It does not mean that the lease is lost.
type RegressError struct {
	Key        string
	Have, Want checkpoint.ExtendedSequenceNumber
}

func (e *RegressError) Error() string {
	return fmt.Sprintf("checkpoint lease %s at %v: the row is already at %v", e.Key, e.Want, e.Have)
}

// HandoffAskedError is what [Table.Evict] fails with if a peer has asked for the lease: the owner, who learns it by this,
// completes the hand-off instead of releasing. Nothing was written.
type HandoffAskedError struct {
	Lease Lease // the row as it is
}

func (e *HandoffAskedError) Error() string {
	return fmt.Sprintf("release lease %s: %q has asked for it", e.Lease.Key, e.Lease.Owner)
}

// PermanentError is a refusal that repeating does not cure: a permission, a table that does not exist or has another key,
// credentials, a request that the service finds malformed. The message says what to do.
type PermanentError struct {
	Doing  string // what was being done, and to what
	Advice string
	Err    error
}

func (e *PermanentError) Error() string {
	if e.Advice == "" {
		return fmt.Sprintf("%s: %v", e.Doing, e.Err)
	}
	return fmt.Sprintf("%s: %v; %s", e.Doing, e.Err, e.Advice)
}

// TableMissing reports whether the table was not found. A table that was made a moment ago may be missed by a request or two: give it
// some seconds before you believe that.
func (e *PermanentError) TableMissing() bool { return isNotFound(e.Err) }

func (e *PermanentError) Unwrap() error { return e.Err }

// KCL3ModeError says that Java workers use the table in KCL 3.x mode, where a leader assigns leases. A worker that takes
// leases by itself would steal from that fleet.
type KCL3ModeError struct {
	Table   string // where the Migration3.0 row stands
	Version string // its cv: CLIENT_VERSION_3X or CLIENT_VERSION_3X_WITH_ROLLBACK
}

func (e *KCL3ModeError) Error() string {
	return fmt.Sprintf("table %s is in KCL 3.x mode (Migration3.0 says %s): there a Java leader assigns leases, and a worker that takes them by itself steals from that fleet; "+
		"bring the Java workers to clientVersionConfig CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X (roll back with KCL's migration tool), or stop them and delete the Migration3.0 row, or use another ApplicationName",
		e.Table, e.Version)
}

func isDuplicate(err error) bool {
	_, is := errors.AsType[*DuplicateWorkerError](err)
	return is
}

func isKCL3Mode(err error) bool {
	_, is := errors.AsType[*KCL3ModeError](err)
	return is
}

// kind is what an error of a call means for the caller.
type kind int

const (
	retryable       kind = iota // may have been applied; again
	permanent                   // was not applied and never will be
	conditionFailed             // was not applied, or was applied by an earlier attempt
	skewed                      // refused for our clock; the SDK corrects itself, so a second or third try may do
)

// kindOf classifies an error of the SDK. What it does not know counts as retryable if it came from the network or the
// service's side, else as permanent.
func kindOf(err error) kind {
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return conditionFailed
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch code := api.ErrorCode(); code {
		case "ConditionalCheckFailedException":
			return conditionFailed
		case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure":
			return skewed
		case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded", "LimitExceededException",
			"TooManyRequestsException", "SlowDown", "BandwidthLimitExceeded", "PriorRequestNotComplete",
			"TransactionInProgressException", "TransactionConflictException", "ReplicatedWriteConflictException",
			"RequestTimeout", "RequestTimeoutException", "InternalServerError", "InternalFailure", "InternalError", "ServiceUnavailable",
			// Temporary credentials that ran out are replaced by their provider.
			"ExpiredToken", "ExpiredTokenException":
			return retryable
		}
		switch status := statusOf(err); {
		case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == 0 && api.ErrorFault() == smithy.FaultServer:
			return retryable
		}
		return permanent
	}
	if statusOf(err) != 0 { // an answer that is none of the service's: a proxy's page, a body that broke off
		return retryable
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return retryable
	}
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
		return retryable
	}
	if net, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && net.Timeout() {
		return retryable
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return retryable // of the attempt, not of the call: that is looked at first
	}
	if _, ok := errors.AsType[*smithy.OperationError](err); ok {
		return permanent // before the request left: region, endpoint, credentials, a parameter
	}
	return retryable // an implementation of DynamoDBAPI that is not the SDK's
}

func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

// codeOf is the service's name of the error, "" if it is none of the service's.
func codeOf(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// isThrottled reports whether the service refused because it is asked too often. What it refused was not applied.
func isThrottled(err error) bool {
	switch codeOf(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded", "LimitExceededException",
		"TooManyRequestsException", "SlowDown", "BandwidthLimitExceeded":
		return true
	}
	return false
}

func isNotFound(err error) bool { return codeOf(err) == "ResourceNotFoundException" }

func isDenied(err error) bool {
	code := codeOf(err)
	return code == "AccessDeniedException" || code == "AccessDenied" || code == "UnauthorizedOperation"
}

// advice says what to do about a permanent error of an action on a table.
func advice(err error, action, table string) string {
	switch code := codeOf(err); {
	case isDenied(err):
		return fmt.Sprintf("allow this worker's role dynamodb:%s on table %s", action, table)
	case isNotFound(err):
		return fmt.Sprintf("there is no table %s in this account and region: create it, or set LeaseManagement.CreateTable, or check LeaseManagement.TableName and the region", table)
	case code == "UnrecognizedClientException" || code == "MissingAuthenticationTokenException" || code == "IncompleteSignatureException" ||
		strings.Contains(code, "Signature") || strings.HasPrefix(code, "Request"):
		return "check the credentials, the region and this machine's clock"
	case code == "ResourceInUseException":
		return fmt.Sprintf("table %s is being created, changed or deleted", table)
	case code == "UnknownOperationException":
		return "this endpoint has no " + action
	case code == "":
		return "check the region, the endpoint and the credentials of the DynamoDB client"
	}
	return ""
}
