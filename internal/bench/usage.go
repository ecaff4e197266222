package main

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// usage is what a phase took of this process.
type usage struct {
	elapsed, cpu   time.Duration
	allocs, bytes  uint64
	peakHeap, base uint64 // bytes of objects, also dead ones not yet collected; before it, after a collection
}

// measure runs f, and looks at the heap while it runs.
func measure(f func() error) (usage, error) {
	runtime.GC()
	stop := make(chan struct{})
	var peak uint64
	base := heapNow()
	var watch sync.WaitGroup
	watch.Go(func() {
		t := time.NewTicker(2 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				peak = max(peak, heapNow())
			case <-stop:
				return
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	err := f()
	u := usage{elapsed: time.Since(began), cpu: cpuTime() - cpu, base: base}
	runtime.ReadMemStats(&after)
	close(stop)
	watch.Wait()
	u.allocs, u.bytes, u.peakHeap = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc, peak
	return u, err
}

// heapNow does not stop the world, as ReadMemStats does.
func heapNow() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
