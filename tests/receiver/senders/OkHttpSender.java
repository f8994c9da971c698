import java.io.File;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okio.BufferedSink;
import okio.Okio;
import okio.Source;

/** OkHttp with its defaults. Arguments: URL, file. */
public class OkHttpSender {
  public static void main(String[] arguments) throws Exception {
    File file = new File(arguments[1]);
    MediaType type = MediaType.get("application/octet-stream");
    RequestBody chunked = new RequestBody() {
      @Override public MediaType contentType() { return type; }
      @Override public void writeTo(BufferedSink sink) throws java.io.IOException {
        try (Source source = Okio.source(file)) {
          sink.writeAll(source);
        }
      }
    };
    RequestBody[] bodies = {RequestBody.create(file, type), chunked};
    OkHttpClient client = new OkHttpClient();
    for (int id = 1; id <= bodies.length; id++) {
      Request request =
          new Request.Builder().url(arguments[0])
              .header("ce-specversion", "1.0").header("ce-id", "" + id)
              .header("ce-source", "/okhttp").header("ce-type", "test.sent")
              .post(bodies[id - 1]).build();
      try (Response response = client.newCall(request).execute()) {
        System.out.println(id + " " + response.code());
      }
    }
    System.exit(0); // its threads would keep the process for a minute
  }
}
