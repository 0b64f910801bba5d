package dev.ferrokube.junit;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** A server that serves until {@link #close} is called or this virtual machine ends. */
public final class TestServer implements AutoCloseable {
    private static final int STOP_TIMEOUT_SECONDS = 5;

    private final Process process;
    private final Path logs;
    private final String ready;
    private final HttpClient http;
    private boolean keepLogs;
    private boolean closed;

    private TestServer(Process process, Path logs, String ready) throws IOException {
        this.process = process;
        this.logs = logs;
        this.ready = ready;
        this.http = HttpClient.newBuilder().sslContext(trusting(ca())).build();
    }

    /** A server with nothing special about it. */
    public static TestServer start() throws IOException {
        return builder().start();
    }

    public static Builder builder() {
        return new Builder();
    }

    /** {@code https://127.0.0.1:…} */
    public String url() {
        return text("url");
    }

    /** The authority of the server's certificate, in PEM. */
    public String ca() {
        return text("ca");
    }

    /** The administrator's. */
    public String token() {
        return text("token");
    }

    /** A file that speaks for the administrator. */
    public Path kubeconfig() {
        return Path.of(text("kubeconfig"));
    }

    public String kubeconfigText() throws IOException {
        return Files.readString(kubeconfig());
    }

    /** The folder with server.log and audit.log. */
    public Path logs() {
        return logs;
    }

    /** Leaves the logs where they are when the server ends. */
    public void keepLogs() {
        keepLogs = true;
    }

    /** Removes what was written since the start and brings back what the server had made for itself. */
    public void reset() throws IOException {
        post("/test-server/reset");
    }

    /** The same, but custom resource definitions stay, without their objects. */
    public void resetObjects() throws IOException {
        post("/test-server/reset?definitions=keep");
    }

    /** A kubeconfig for a user in groups, who may do what RBAC objects say. */
    public String user(String name, String... groups) throws IOException {
        StringBuilder query = new StringBuilder("/test-server/users?name=").append(escaped(name));
        for (String group : groups) {
            query.append("&group=").append(escaped(group));
        }
        return post(query.toString());
    }

    /** A request of the administrator. */
    public HttpResponse<String> request(String method, String path, String json) throws IOException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url() + path))
                .method(method, json == null ? BodyPublishers.noBody() : BodyPublishers.ofString(json))
                .header("Authorization", "Bearer " + token())
                .header("Content-Type", "application/json")
                .build();
        try {
            return http.send(request, BodyHandlers.ofString());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", interrupted);
        }
    }

    /** Ends the server. Nothing of it is left, unless its logs are to be kept. A second call does nothing. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        end(process);
        if (!keepLogs) {
            remove(logs);
        }
    }

    private String post(String path) throws IOException {
        HttpResponse<String> answer = request("POST", path, null);
        if (answer.statusCode() != 200) {
            throw new IOException(answer.statusCode() + ": " + answer.body());
        }
        return answer.body();
    }

    private static String escaped(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    /** A member of the line that the program printed, which has no two members of one name. */
    private String text(String name) {
        Matcher found = Pattern.compile('"' + name + "\":\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(ready);
        if (!found.find()) {
            throw new IllegalStateException("the server did not say its " + name);
        }
        return found.group(1).replace("\\n", "\n").replace("\\\"", "\"").replace("\\/", "/").replace("\\\\", "\\");
    }

    private static SSLContext trusting(String pem) throws IOException {
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            byte[] bytes = pem.getBytes(StandardCharsets.US_ASCII);
            int number = 0;
            for (Certificate certificate :
                    CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(bytes))) {
                store.setCertificateEntry("ca-" + number++, certificate);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (GeneralSecurityException error) {
            throw new IOException(error);
        }
    }

    private static void end(Process process) {
        try {
            process.getOutputStream().close();
        } catch (IOException ended) {
            // It has ended by itself.
        }
        try {
            if (!process.waitFor(STOP_TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private static void remove(Path folder) {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** What to start. */
    public static final class Builder {
        private final List<String> arguments = new ArrayList<>(List.of("test-server", "--print-json"));
        private final List<String> flags = new ArrayList<>();
        private Path program;

        private Builder() {}

        /** Files with CustomResourceDefinitions, and folders of such files. */
        public Builder crds(List<String> paths) {
            paths.forEach(path -> arguments.addAll(List.of("--crds", path)));
            return this;
        }

        /** Flags of kube-apiserver. */
        public Builder flags(List<String> more) {
            flags.addAll(more);
            return this;
        }

        /** Leaves deleted namespaces, owned objects and service accounts alone. */
        public Builder bare(boolean bare) {
            if (bare) {
                arguments.add("--bare");
            }
            return this;
        }

        /** The program, if it is not the one of the jar for this platform. */
        public Builder program(Path path) {
            program = path;
            return this;
        }

        public TestServer start() throws IOException {
            Path logs = Files.createTempDirectory("ferrokube-logs-");
            List<String> command = new ArrayList<>();
            command.add((program == null ? Program.find() : program).toString());
            command.addAll(arguments);
            command.addAll(List.of("--logs", logs.toString()));
            if (!flags.isEmpty()) {
                command.add("--");
                command.addAll(flags);
            }
            try {
                Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
                String line = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))
                        .readLine();
                if (line == null) {
                    end(process);
                    throw new IOException(command.get(0) + " ended before it was ready; standard error says why");
                }
                return new TestServer(process, logs, line);
            } catch (IOException error) {
                remove(logs);
                throw error;
            }
        }
    }
}
