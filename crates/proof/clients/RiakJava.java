import com.basho.riak.client.IRiakClient;
import com.basho.riak.client.IRiakObject;
import com.basho.riak.client.RiakException;
import com.basho.riak.client.RiakFactory;
import com.basho.riak.client.bucket.Bucket;
import com.basho.riak.client.cap.ConflictResolver;
import java.util.Collection;
import java.util.TreeSet;

/**
 * Riak's official client for Java, of 2014, over HTTP: it reads siblings, settles them, and hears
 * that link walking is not served. Run with the port to talk to.
 */
public class RiakJava {
    public static void main(String[] words) throws Exception {
        IRiakClient client = RiakFactory.httpClient("http://127.0.0.1:" + words[0] + "/riak");
        Bucket bucket = client.fetchBucket("java").execute();
        for (String value : new String[] {"green", "blue"}) {
            bucket.store("fig", value).withoutFetch().execute();
        }
        TreeSet<String> seen = new TreeSet<>();
        ConflictResolver<IRiakObject> newest = (Collection<IRiakObject> siblings) -> {
            siblings.forEach(sibling -> seen.add(sibling.getValueAsString()));
            return siblings.iterator().next();
        };
        IRiakObject read = bucket.fetch("fig").withResolver(newest).execute();
        must(seen.toString().equals("[blue, green]"), "siblings read as " + seen);
        read.setValue("ripe");
        // Reads again, resolves, and writes over what was read.
        bucket.store(read).withResolver(newest).execute();
        read = bucket.fetch("fig").execute();
        must(read.getValueAsString().equals("ripe"), "settled as " + read.getValueAsString());
        try {
            int found = client.walk(read).addStep("java", "friend").execute().size();
            must(false, "a walk gave " + found + " steps in place of an error");
        } catch (RiakException error) {
            must(error.getMessage().contains("Link walking"), "a walk said " + error.getMessage());
        }
        client.shutdown();
    }

    private static void must(boolean holds, String words) {
        if (!holds) {
            throw new AssertionError(words);
        }
    }
}
