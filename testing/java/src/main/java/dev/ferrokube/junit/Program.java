package dev.ferrokube.junit;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;

/** Where the program is: named by FERROKUBE_BINARY, in the jar for this platform, or on PATH. */
final class Program {
    private static final String NAME = "ferrokube";
    private static Path unpacked;

    private Program() {}

    static Path find() throws IOException {
        String named = System.getenv("FERROKUBE_BINARY");
        if (named != null && !named.isEmpty()) {
            return Path.of(named);
        }
        Path inJar = unpack();
        if (inJar != null) {
            return inJar;
        }
        for (String folder : System.getenv().getOrDefault("PATH", "").split(File.pathSeparator)) {
            Path path = Path.of(folder, NAME);
            if (Files.isExecutable(path)) {
                return path;
            }
        }
        throw new IOException("there is no program ferrokube: add the jar for " + platform()
                + " (a classifier of ferrokube-junit), or name the program with FERROKUBE_BINARY");
    }

    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT).contains("mac") ? "darwin" : "linux";
        String architecture = System.getProperty("os.arch").equals("aarch64") ? "arm64" : "amd64";
        return os + "-" + architecture;
    }

    /** Once for a virtual machine, into a file that only its owner can change. */
    private static synchronized Path unpack() throws IOException {
        if (unpacked != null) {
            return unpacked;
        }
        try (InputStream program = Program.class.getResourceAsStream("/dev/ferrokube/" + platform() + "/" + NAME)) {
            if (program == null) {
                return null;
            }
            Path path = Files.createTempFile("ferrokube-", "");
            path.toFile().deleteOnExit();
            Files.copy(program, path, StandardCopyOption.REPLACE_EXISTING);
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwx------"));
            unpacked = path;
            return path;
        }
    }
}
