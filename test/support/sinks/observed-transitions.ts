import type Database from 'better-sqlite3';
import {
  stateSql,
  type PartitionState,
  type Transition,
} from '../../../src/sinks/file-ledger/partitions/states.ts';
import type { PartitionTransitions } from '../../../src/sinks/file-ledger/partitions/transitions.ts';

/** Those that were run, in all tests of a file. */
export const seenTransitions = new Set<string>();
/** Each look reads every partition. */
const mostRows = 200;

interface Look {
  readonly id: number;
  readonly state: PartitionState;
  readonly text: string;
}

type Rows = ReadonlyMap<number, Look>;

/** The same statements, which throw where they lead a partition from or to a state that their table does not name. */
export function observedTransitions(
  db: Database.Database,
  statements: PartitionTransitions,
  table: Readonly<Record<string, Transition>>,
): PartitionTransitions {
  const columns = db
    .prepare<[], string>("SELECT name FROM pragma_table_info('_sync_partitions')")
    .pluck()
    .all();
  const look = db.prepare<[], Look>(
    `SELECT id, ${stateSql('one')} AS state, json_array(${columns.join(', ')}) AS text FROM _sync_partitions AS one`,
  );
  const count = db.prepare<[], number>('SELECT count(*) FROM _sync_partitions').pluck();
  const rows = (): Rows => new Map(look.all().map((row) => [row.id, row]));

  const observe = (name: string, statement: Database.Statement) => {
    const around = <Result>(run: () => Result): Result => {
      seenTransitions.add(name);
      if ((count.get() ?? 0) > mostRows) return run();
      const before = rows();
      const result = run();
      checkMoves(name, table[name], before, rows());
      return result;
    };
    return {
      run: (...values: unknown[]) => around(() => statement.run(...values)),
      get: (...values: unknown[]) => around(() => statement.get(...values)),
      all: (...values: unknown[]) => around(() => statement.all(...values)),
    };
  };
  const observed = Object.entries(statements).map(([name, statement]) => [name, observe(name, statement)]);
  return Object.fromEntries(observed) as PartitionTransitions;
}

function checkMoves(name: string, transition: Transition | undefined, before: Rows, after: Rows): void {
  if (transition === undefined) throw new Error(`no transition ${name}`);
  const { from, to } = transition;
  for (const id of new Set([...before.keys(), ...after.keys()])) {
    const [old, now] = [before.get(id), after.get(id)];
    if (old?.text === now?.text) continue;
    const [left, entered] = [old?.state ?? 'unknown', now?.state ?? 'unknown'];
    const isAllowed = from.includes(left) && (to === undefined ? left === entered : to.includes(entered));
    if (!isAllowed) {
      throw new Error(`${name} has led a partition from ${left} to ${entered}: ${old?.text} ${now?.text}`);
    }
  }
}
