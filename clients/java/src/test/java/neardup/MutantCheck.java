package neardup;

import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.ToolProvider;

/**
 * Checks that the vectors find changed rules: {@code java neardup.MutantCheck CLASSES VECTORS
 * MUTANTS} compiles the sources of each folder in MUTANTS, puts them before CLASSES, and prints
 * how many values of the vectors are wrong with them.
 */
public final class MutantCheck {
    public static void main(String[] arguments) throws Exception {
        Path classes = Path.of(arguments[0]);
        List<String> vectors = list(Path.of(arguments[1]), ".jsonl");
        try (Stream<Path> mutants = Files.list(Path.of(arguments[2]))) {
            for (Path mutant : mutants.sorted().toList()) {
                System.out.println(mutant.getFileName() + "\t" + count(mutant, classes, vectors));
            }
        }
    }

    private static String count(Path mutant, Path classes, List<String> vectors) throws Exception {
        List<String> options = new ArrayList<>(
                List.of("-cp", classes.toString(), "-d", mutant.toString()));
        options.addAll(list(mutant, ".java"));
        int failed = ToolProvider.getSystemJavaCompiler()
                .run(null, System.out, System.out, options.toArray(String[]::new));
        if (failed != 0) {
            return "not compiled";
        }
        URL[] path = {mutant.toUri().toURL(), classes.toUri().toURL()};
        try (URLClassLoader loader =
                new URLClassLoader(path, ClassLoader.getPlatformClassLoader())) {
            return loader.loadClass("neardup.VectorCheck")
                    .getMethod("countWrong", List.class, PrintStream.class)
                    .invoke(null, vectors, new PrintStream(OutputStream.nullOutputStream()))
                    .toString();
        } catch (InvocationTargetException error) {
            return error.getCause().toString();
        }
    }

    private static List<String> list(Path folder, String ending) throws Exception {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(Path::toString).filter(name -> name.endsWith(ending)).sorted()
                    .toList();
        }
    }
}
