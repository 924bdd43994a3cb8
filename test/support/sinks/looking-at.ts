import type { Values } from '../../../src/sql/database.ts';
import type { PostgresTx as Tx } from '../../../src/sql/postgres/session.ts';

/** What a statement cost, as the server itself tells it. */
export interface Look {
  readonly sql: string;
  /** The most rows that one step of its plan read, taken or not. */
  readonly rows: number;
}

/**
 * Has every statement explained, with what it really does, before it runs: one after the other. `looked` resolves when
 * all have run.
 */
export function lookingAt(tx: Tx, note: (look: Look) => void): { tx: Tx; looked: () => Promise<void> } {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last.then(work);
    last = result;
    return await result;
  };
  const look = async (sql: string, values: Values = {}): Promise<void> => {
    await tx.run('SAVEPOINT look');
    const [explained] = await tx.arrays(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`, values);
    await tx.run('ROLLBACK TO SAVEPOINT look');
    const [plan] = explained ?? [];
    note({ sql, rows: mostRows(typeof plan === 'string' ? JSON.parse(plan) : plan) });
  };
  const lookThen = async <Result>(
    sql: string,
    values: Values | undefined,
    ask: () => Promise<Result>,
  ): Promise<Result> =>
    await inTurn(async () => {
      // A copy has no plan.
      if (!sql.startsWith('COPY')) await look(sql, values);
      return await ask();
    });
  return {
    tx: {
      dialect: tx.dialect,
      rows: async <Row extends object>(sql: string, values?: Values) =>
        await lookThen(sql, values, async () => await tx.rows<Row>(sql, values)),
      first: async <Row extends object>(sql: string, values?: Values) =>
        await lookThen(sql, values, async () => await tx.first<Row>(sql, values)),
      arrays: async (sql, values) => await lookThen(sql, values, async () => await tx.arrays(sql, values)),
      run: async (sql, values) => await lookThen(sql, values, async () => await tx.run(sql, values)),
      put: (sql, values, chunks) => {
        void lookThen(sql, values, async () => {
          tx.put(sql, values, chunks);
          await tx.run('SELECT 1');
        });
      },
    },
    looked: async () => void (await last),
  };
}

const looked = [
  'Actual Rows',
  'Rows Removed by Filter',
  'Rows Removed by Join Filter',
  'Rows Removed by Index Recheck',
];

function mostRows(plan: unknown): number {
  if (Array.isArray(plan)) return Math.max(0, ...plan.map(mostRows));
  if (typeof plan !== 'object' || plan === null) return 0;
  const numbers = plan as Readonly<Record<string, unknown>>;
  const each = looked.reduce((sum, name) => sum + Number(numbers[name] ?? 0), 0);
  return Math.max(each * Number(numbers['Actual Loops'] ?? 0), ...Object.values(plan).map(mostRows));
}
