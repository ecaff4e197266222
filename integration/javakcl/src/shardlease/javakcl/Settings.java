package shardlease.javakcl;

import java.util.HashMap;
import java.util.Map;

/** The command line, as name=value. */
final class Settings {
  private final Map<String, String> values = new HashMap<>();

  Settings(String[] args) {
    for (String arg : args) {
      int at = arg.indexOf('=');
      if (at < 1) {
        throw new IllegalArgumentException("argument " + arg + ", want name=value");
      }
      values.put(arg.substring(0, at), arg.substring(at + 1));
    }
  }

  String text(String name) {
    String v = values.get(name);
    if (v == null) {
      throw new IllegalArgumentException("argument " + name + "=… is missing");
    }
    return v;
  }

  String text(String name, String otherwise) {
    return values.getOrDefault(name, otherwise);
  }

  long number(String name, long otherwise) {
    String v = values.get(name);
    return v == null ? otherwise : Long.parseLong(v);
  }
}
