package org.example.books;

import java.util.List;
import java.io.*;
import static java.lang.Math.max;

/**
 * Keeps entries.
 */
@Component("ledger")
public abstract class Ledger<T extends Entry> extends Book<T> implements Closeable, org.example.Named {
    public static final int LIMIT = 10;
    private final List<T> entries;
    int count, total = 0;

    /** Opens a ledger. */
    protected Ledger(List<T> entries, String... names) {
        super(names);
        this.entries = entries;
    }

    /** Adds one. */
    @Override
    public synchronized <U extends T> int add(U entry) throws IOException {
        int size = entries.size();
        if (entry instanceof Marked marked && size < LIMIT) {
            entries.add(entry);
            count++;
        }
        for (T one : entries) {
            total += one.amount();
        }
        entries.forEach(e -> Log.write(e, max(1, total)));
        entries.sort(Comparator.comparing(Entry::day));
        new Thread(new Runnable() {
            private int runs = 0;

            public void run() {
                flush(runs);
            }
        }).start();
        return new Counter<T>(size).value;
    }

    abstract void flush(int runs);

    enum Kind implements Named {
        DEBIT("d"), CREDIT("c");

        private final String code;

        Kind(String code) {
            this.code = code;
        }
    }

    interface Visitor extends First, Second {
        String NAME = "visitor";

        void visit(Entry entry);
    }

    @interface Audited {
        String by() default "nobody";
    }

    record Point(int x, int y) {
        Point {
            check(x);
        }
    }
}
