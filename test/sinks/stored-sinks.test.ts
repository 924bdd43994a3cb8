import { openSink } from '../../src/sinks/registry.ts';
import { describe, expect, it, onTestFinished } from 'vitest';
import { goOn } from '../support/stored/stored-sink.ts';
import { openStored, type Expected } from '../support/stored/stored-fixture.ts';
import { killedAtEach } from '../support/stored/killed-opening.ts';
import { seenState } from '../support/stored/seen-state.ts';
import { storedSinks } from '../support/stored/stored-kinds.ts';
import { isLong } from '../support/trials.ts';
import type { Bench } from '../contracts/sink/fixture.ts';

/* `test/fixtures/stored/README.md` says what the sinks hold. */

/** In `npm test` one statement of so many. */
const looksAtEach = 3;
/** In `npm test` the oldest one in a file, which takes every later step too, is continued ... */
const wentOn: readonly string[] = ['sqlite'];
/** ... and of the other types the cheapest is killed: `from-version-7.test.ts` does that to the oldest in SQLite. */
const killed: readonly string[] = ['jsonl-10', 'postgres-4'];
/** The oldest and the newest of each type: what lies between takes the steps of the oldest. */
const opens: readonly string[] = ['sqlite', 'jsonl', 'postgres', 'sqlite-10', ...killed];

describe.each(storedSinks)('a sink of type $type, version $version', ({ type, version, name }) => {
  async function opened(): Promise<{ readonly bench: Bench; readonly expected: Expected }> {
    const found = await openStored({ type, name });
    onTestFinished(async () => await found.bench.close());
    return found;
  }

  // Proves promise 1.7
  it.runIf(isLong || opens.includes(name))(
    'says the same of everything once it is opened for writing',
    async () => {
      const { bench, expected } = await opened();
      await bench.open();
      await bench.closeSinks();
      expect(await seenState(bench.kind.options(bench.folder))).toEqual(expected.before);
    },
  );

  // Its records were in its files alone.
  it.runIf(name !== 'jsonl' && (isLong || opens.includes(name)))('is read as it is before that', async () => {
    const { bench, expected } = await opened();
    expect(await seenState(bench.kind.options(bench.folder))).toEqual(expected.before);
    expect(await storedVersion(bench)).toBe(version);
  });

  // Proves promise 1.7
  it.runIf(isLong || wentOn.includes(name))(
    'resumes as that version would have, and rewrites no row that is unchanged at the source',
    async () => {
      const { bench, expected } = await opened();
      const after = await goOn(bench, expected.saved);
      const {
        'email-marketing': mailing,
        'workspace-notes': notes,
        'document-library': library,
      } = after.samples;
      for (const full of [mailing, notes, library, { ...after.odd, outcome: 'ok' }]) {
        expect(full).toMatchObject({ outcome: 'ok', written: 0 });
        expect(full?.fetched).toBeGreaterThan(0);
      }
      expect(withoutFetched(after)).toEqual(withoutFetched(expected.after));
    },
  );

  // Proves promise 1.7
  it.runIf(isLong || killed.includes(name))(
    'is whole after a kill in front of any statement of its opening, and opened by the next process',
    async () => {
      const { bench, expected } = await opened();
      const statements = await killedAtEach(type, bench, async (folder, statement) => {
        if (!isLong && statement % looksAtEach !== 0) return;
        const options = bench.kind.options(folder);
        const sink = await openSink(options, { clock: bench.clock });
        await sink[Symbol.asyncDispose]();
        expect(await seenState(options), `statement ${statement}`).toEqual(expected.before);
      });
      expect(statements).toBeGreaterThan(looksAtEach);
    },
    1_200_000,
  );
});

async function storedVersion({ kind, folder }: Bench): Promise<unknown> {
  const sql =
    kind.options(folder).type === 'postgres' ? 'SELECT version FROM _sync_meta' : 'PRAGMA user_version';
  const [row] = await kind.ledgerSql(folder, sql);
  return Object.values(row ?? {})[0];
}

/** Pages overlap, so some records come twice: how many is not what a ledger says. */
function withoutFetched<Value>(value: Value): Value {
  // `as`: a copy of JSON.
  return JSON.parse(
    JSON.stringify(value, (name, one: unknown) => (name === 'fetched' ? undefined : one)),
  ) as Value;
}
