//go:build unix

package javakcl

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// explained are entries at warn or above, with what comes before the first line of a stack trace's frames, that have a reason which is
// none of the rows.
var explained = []struct {
	java   bool
	text   *regexp.Regexp
	reason string
}{
	{true, regexp.MustCompile(`Did not find an operating range metadata provider`), "this machine is no EC2 instance"},
	{true, regexp.MustCompile(`Cannot get the shard for this ProcessTask`), "KCL has not listed a new shard yet, for KPL's sake"},
	{true, regexp.MustCompile(`PrefetchRecordsPublisher .*\n.*Shutdown has been called on the cache`), "a fetch of KCL meets its own end"},
	{true, regexp.MustCompile(`Scheduler - Worker.run caught exception.*\n.*LeaderDecider uninitialized`), "KCL 3 in 2.x mode asks for the leader while it stops"},
	{true, regexp.MustCompile(`\n.*InterruptedException`), "a request of KCL was interrupted by its own stop"},
	{true, regexp.MustCompile(`Scheduler - Caught exception when initializing.*\n.*RejectedExecutionException`), "KCL was stopped while it started"},
	{true, regexp.MustCompile(`DefaultChannelPipeline .*\n.*Subscriber cancelled before all events were published`), "KCL gives up a subscription of a lease that it stops reading"},
	{true, regexp.MustCompile(`^java.util.concurrent.TimeoutException`), "a stop did not end"},
	{false, regexp.MustCompile(`msg="checkpoint refused" .*lease lost: .* is \\?"java-\d\\?", a Java worker`), "KCL takes leases without asking their owner"},
	{false, regexp.MustCompile(`msg="worker stopped" .* is in KCL 3\.x mode`), "that is refused"},
}

// elsewhere are the parts of KCL and the SDK that see no row: what they log is counted and shown.
var elsewhere = regexp.MustCompile(`^[0-9:.]{12} \[[^\]]*\] (?:WARN|ERROR) (software\.amazon\.(?:awssdk|kinesis\.(?:retrieval|lifecycle|metrics|worker|common))\S*) - (.{0,60})`)

var (
	begins = regexp.MustCompile(`^[0-9:.]{12} \[|^time=|^worker ended:`)
	quiet  = regexp.MustCompile(`^[0-9:.]{12} \[[^\]]*\] (DEBUG|INFO) |^time=\S+ level=(DEBUG|INFO) |^worker ended:`)
)

// entriesOf counts the entries of a worker's log and returns those that are louder than info: the line, and the one behind it, which
// names the exception.
func (f *fleet) entriesOf(w *worker) (all int, loud []string) {
	f.t.Helper()
	var entries [][]string
	for _, line := range f.logOf(w) {
		if len(entries) == 0 || begins.MatchString(line) {
			entries = append(entries, nil)
		}
		last := len(entries) - 1
		entries[last] = append(entries[last], line)
	}
	for _, e := range entries {
		if !quiet.MatchString(e[0]) {
			loud = append(loud, strings.Join(e[:min(2, len(e))], "\n"))
		}
	}
	return len(entries), loud
}

// printLogs searches the workers' logs for warnings and errors, prints what there was, and fails the test for what is not explained.
func (f *fleet) printLogs() {
	f.t.Helper()
	all, reasons, unexplained := 0, map[string]int{}, 0
	for _, w := range f.workers {
		n, loud := f.entriesOf(w)
		all += n
		for _, entry := range loud {
			reason := ""
			for _, e := range explained {
				if e.java == w.java && e.text.MatchString(entry) {
					reason = e.reason
				}
			}
			if m := elsewhere.FindStringSubmatch(entry); reason == "" && w.java && m != nil {
				reason = m[1] + ": " + m[2]
			}
			if reason == "" {
				unexplained++
				f.t.Errorf("%s, %s, logged: %s", w.id, f.kind(w), entry)
				continue
			}
			reasons[reason]++
		}
	}
	fmt.Printf("  %d log entries, warnings and errors about rows, or unexplained %d\n", all, unexplained)
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Printf("    %d others: %s\n", reasons[reason], reason)
	}
	if f.t.Failed() {
		for _, w := range f.workers {
			text, _ := os.ReadFile(w.log)
			fmt.Printf("--- end of the log of %s, %s\n%s\n", w.id, f.kind(w), text[max(0, len(text)-4000):])
		}
	}
}
