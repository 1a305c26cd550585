import com.basho.riak.client.IRiakClient;
import com.basho.riak.client.IRiakObject;
import com.basho.riak.client.RiakFactory;
import com.basho.riak.client.bucket.Bucket;
import com.basho.riak.client.builders.RiakObjectBuilder;
import com.basho.riak.client.cap.ConflictResolver;
import java.util.Collection;
import java.util.TreeSet;

/** Values, siblings and their resolution, deletes and lists by Riak's Java client over HTTP. */
public final class Siblings {
    /** Joins the values of siblings in order, and remembers how many there were. */
    static final class Joining implements ConflictResolver<IRiakObject> {
        int seen;

        @Override
        public IRiakObject resolve(Collection<IRiakObject> siblings) {
            seen = siblings.size();
            if (siblings.isEmpty()) {
                return null;
            }
            TreeSet<String> values = new TreeSet<String>();
            for (IRiakObject sibling : siblings) {
                values.add(sibling.getValueAsString());
            }
            IRiakObject first = siblings.iterator().next();
            return RiakObjectBuilder.newBuilder(first.getBucket(), first.getKey())
                .withVClock(first.getVClock())
                .withContentType("text/plain")
                .withValue(String.join("+", values))
                .build();
        }
    }

    static void must(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] words) throws Exception {
        IRiakClient client = RiakFactory.httpClient("http://127.0.0.1:" + words[0] + "/riak");
        client.ping();
        Bucket bucket = client.createBucket("java").allowSiblings(true).execute();
        must(bucket.getAllowSiblings(), "the bucket keeps siblings");

        bucket.store("plain", "one").execute();
        must(bucket.fetch("plain").execute().getValueAsString().equals("one"), "a value comes back");
        must(bucket.fetch("nothing").execute() == null, "an absent key is null");

        // Without a fetch no vector clock is sent: neither write knows of the other.
        for (String value : new String[] {"apple", "pear", "plum"}) {
            bucket.store("fruit", value).withoutFetch().execute();
        }
        Joining joining = new Joining();
        IRiakObject found = bucket.fetch("fruit").withResolver(joining).execute();
        must(joining.seen == 3, "three siblings are read, not " + joining.seen);
        must(found.getValueAsString().equals("apple+pear+plum"), found.getValueAsString());

        // What the resolver made replaces all three, for it carries their vector clock.
        bucket.store(found).withResolver(joining).withoutFetch().execute();
        found = bucket.fetch("fruit").withResolver(joining).execute();
        must(joining.seen == 1, "one value is left, not " + joining.seen);
        must(found.getValueAsString().equals("apple+pear+plum"), found.getValueAsString());

        TreeSet<String> keys = new TreeSet<String>();
        for (String key : bucket.keys()) {
            keys.add(key);
        }
        must(keys.toString().equals("[fruit, plain]"), keys.toString());
        bucket.delete("plain").execute();
        must(bucket.fetch("plain").execute() == null, "a deleted key is null");
        System.out.println("Riak's Java client: 3 siblings read and resolved");
        client.shutdown();
    }
}
