package shardlease.javakcl;

import java.lang.reflect.Method;

/** What KCL 3 alone can be told. This program is compiled against 2.7, too, so it is said by name. */
final class KCL3 {
  private KCL3() {}

  static void configure(Settings set, Object leases, Object coordinator) throws ReflectiveOperationException {
    String version = set.text("clientVersion", "");
    if (version.isEmpty()) {
      return; // 2.7, which has one way to work
    }
    Method setter = setter(coordinator, "clientVersionConfig");
    for (Object v : setter.getParameterTypes()[0].getEnumConstants()) {
      if (v.toString().equals(version) || ((Enum<?>) v).name().equals(version)) {
        setter.invoke(coordinator, v);
        version = "";
      }
    }
    if (!version.isEmpty()) {
      throw new IllegalArgumentException("KCL knows no clientVersionConfig " + version);
    }
    // A leader of 3.x that is killed is missed after the time of its lock, two minutes unless told otherwise.
    call(leases, "leaseAssignmentIntervalMillis", 2_000L);
    call(leases, "dynamoDbLockBasedLeaderLeaseDurationInMillis", 10_000L);
    call(leases, "dynamoDbLockBasedLeaderHeartbeatPeriodInMillis", 2_500L);
    Object workers = leases.getClass().getMethod("workerUtilizationAwareAssignmentConfig").invoke(leases);
    call(workers, "workerMetricsReporterFreqInMillis", 5_000L);
  }

  private static void call(Object on, String name, Object value) throws ReflectiveOperationException {
    setter(on, name).invoke(on, value);
  }

  private static Method setter(Object on, String name) throws NoSuchMethodException {
    for (Method m : on.getClass().getMethods()) {
      if (m.getName().equals(name) && m.getParameterCount() == 1) {
        return m;
      }
    }
    throw new NoSuchMethodException(on.getClass() + "." + name);
  }
}
