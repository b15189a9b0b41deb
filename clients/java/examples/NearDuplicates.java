import static org.apache.spark.sql.functions.callUDF;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.posexplode;

import neardup.Sketch;
import neardup.Sketcher;
import neardup.Spec;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.types.DataTypes;

/**
 * Near-duplicates by SQL functions on Spark, without Python: {@code spark-submit --class
 * NearDuplicates --jars neardup-client.jar examples.jar INPUT OUTPUT} reads JSON lines with
 * {@code id} and {@code text}, and writes the pairs that are similar, as estimated from sketches.
 */
public final class NearDuplicates {
    private static final int BANDS = 21;
    private static final int ROWS = 6;
    private static final double THRESHOLD = 0.8;

    /** One sketcher for all tasks of an executor; any thread may use it. */
    private static final class Shared {
        static final Sketcher SKETCHER = new Sketcher(Spec.DEFAULT);
    }

    public static void main(String[] arguments) {
        SparkSession spark = SparkSession.builder().appName("near-duplicates").getOrCreate();
        register(spark);
        Dataset<Row> sketches = spark.read().schema("id STRING, text STRING").json(arguments[0])
                .select(col("id"), callUDF("neardup_sketch", col("text")).as("sketch"))
                .where("sketch IS NOT NULL").localCheckpoint();
        Dataset<Row> keys = sketches.select(col("id"), col("sketch"),
                posexplode(callUDF("neardup_keys", col("sketch")))
                        .as(new String[] {"band", "key"}));
        keys.createOrReplaceTempView("keys");
        spark.sql("SELECT a, b, neardup_similarity(first, second) AS similarity FROM ("
                + " SELECT DISTINCT x.id AS a, y.id AS b, x.sketch AS first, y.sketch AS second"
                + " FROM keys x JOIN keys y USING (band, key) WHERE x.id < y.id)")
                .where(col("similarity").geq(THRESHOLD))
                .write().json(arguments[1]);
        spark.stop();
    }

    /**
     * Registers {@code neardup_sketch(text)}, null for a text of which nothing is visible;
     * {@code neardup_keys(sketch)}; and {@code neardup_similarity(sketch, sketch)}. Scala calls it
     * as it is.
     *
     * @param spark the session
     */
    public static void register(SparkSession spark) {
        spark.udf().register("neardup_sketch", (UDF1<String, byte[]>) text -> text == null ? null
                : Shared.SKETCHER.sketch(text).map(Sketch::toBytes).orElse(null),
                DataTypes.BinaryType);
        spark.udf().register("neardup_keys", (UDF1<byte[], long[]>) sketch ->
                Sketch.fromBytes(sketch).bandKeys(BANDS, ROWS),
                DataTypes.createArrayType(DataTypes.LongType));
        spark.udf().register("neardup_similarity", (UDF2<byte[], byte[], Double>) (a, b) ->
                Sketch.fromBytes(a).similarity(Sketch.fromBytes(b)), DataTypes.DoubleType);
    }
}
