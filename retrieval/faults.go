package retrieval

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// fault is what a failed call means for the caller.
type fault int

const (
	transient   fault = iota // the network, the service's own trouble, an answer that cannot be read: the same again
	throttled                // asked too often
	notFound                 // the stream or the shard is gone
	inUse                    // the stream is being created, resharded or deleted
	badIterator              // the shard iterator is too old, or not accepted
	badToken                 // the page token is too old
	skewed                   // the signature is refused: our clock, which the SDK corrects by what it sees, or a wrong secret
	denied                   // credentials or a permission; somebody may repair it while we run
	refused                  // any other "no": a parameter, a position, a key of KMS
)

// faultOf classifies an error of the SDK.
func faultOf(err error) fault {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if f, known := faultCodes[api.ErrorCode()]; known {
			return f
		}
		switch status := statusOf(err); {
		case status == http.StatusTooManyRequests:
			return throttled
		case status >= 500, status == http.StatusRequestTimeout, status == 0 && api.ErrorFault() == smithy.FaultServer:
			return transient
		case status == http.StatusUnauthorized, status == http.StatusForbidden:
			return denied
		}
		return refused
	}
	if _, ok := errors.AsType[*smithy.OperationError](err); ok && !reached(err) {
		return refused // before the request left: region, endpoint, credentials
	}
	return transient
}

var faultCodes = map[string]fault{
	"ProvisionedThroughputExceededException": throttled,
	"LimitExceededException":                 throttled,
	"ThrottlingException":                    throttled,
	"Throttling":                             throttled,
	"RequestLimitExceeded":                   throttled,
	"TooManyRequestsException":               throttled,
	"SlowDown":                               throttled,
	"KMSThrottlingException":                 throttled,

	"ResourceNotFoundException": notFound,
	"ResourceInUseException":    inUse,
	"ExpiredIteratorException":  badIterator,
	// Of DynamoDB Streams: the record at which the iterator stands is not kept any more.
	"TrimmedDataAccessException": badIterator,
	"ExpiredNextTokenException":  badToken,
	"InvalidArgumentException":   refused,
	"ValidationException":        refused,

	"InvalidSignatureException": skewed,
	"SignatureDoesNotMatch":     skewed,
	"RequestTimeTooSkewed":      skewed,
	"RequestExpired":            skewed,
	"RequestInTheFuture":        skewed,
	"AuthFailure":               skewed,

	"AccessDeniedException":               denied,
	"AccessDenied":                        denied,
	"UnauthorizedOperation":               denied,
	"KMSAccessDeniedException":            denied,
	"UnrecognizedClientException":         denied,
	"InvalidClientTokenId":                denied,
	"MissingAuthenticationTokenException": denied,
	"MissingAuthenticationToken":          denied,
	"IncompleteSignatureException":        denied,
	"IncompleteSignature":                 denied,
	"OptInRequired":                       denied,

	// Temporary credentials that ran out are replaced by their provider.
	"ExpiredToken":            transient,
	"ExpiredTokenException":   transient,
	"RequestTimeout":          transient,
	"RequestTimeoutException": transient,
}

// reached reports whether a failed call got as far as the network.
func reached(err error) bool {
	if statusOf(err) != 0 {
		return true
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
		return true
	}
	if net, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && net.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}
