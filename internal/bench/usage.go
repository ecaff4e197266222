package main

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// usage is what a phase took of this process, or several like it together.
type usage struct {
	phases         int64
	elapsed, cpu   time.Duration
	allocs, bytes  uint64
	peakHeap, base uint64 // bytes of objects, also dead ones not yet collected; before it, after a collection
}

// and is what two took together.
func (u usage) and(v usage) usage {
	return usage{
		phases: u.phases + v.phases, elapsed: u.elapsed + v.elapsed, cpu: u.cpu + v.cpu, allocs: u.allocs + v.allocs, bytes: u.bytes + v.bytes,
		peakHeap: max(u.peakHeap, v.peakHeap), base: max(u.base, v.base),
	}
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
	u := usage{phases: 1, elapsed: time.Since(began), cpu: cpuTime() - cpu, base: base}
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
