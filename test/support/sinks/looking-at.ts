import type { Tx, Values } from '../../../src/sinks/postgres/session.ts';

/** What a statement cost, as the server itself tells it. */
export interface Look {
  readonly sql: string;
  /** The most rows that one step of its plan looked at, taken or not. */
  readonly rows: number;
}

/** Has every statement explained, with what it really does, before it runs. */
export function lookingAt(tx: Tx, note: (look: Look) => void): Tx {
  const look = async (sql: string, values: Values = {}): Promise<void> => {
    await tx.run('SAVEPOINT look');
    const [explained] = await tx.arrays(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`, values);
    await tx.run('ROLLBACK TO SAVEPOINT look');
    const [plan] = explained ?? [];
    note({ sql, rows: mostRows(typeof plan === 'string' ? JSON.parse(plan) : plan) });
  };
  return {
    ...tx,
    rows: async (sql, values) => {
      await look(sql, values);
      return await tx.rows(sql, values);
    },
    first: async (sql, values) => {
      await look(sql, values);
      return await tx.first(sql, values);
    },
    arrays: async (sql, values) => {
      await look(sql, values);
      return await tx.arrays(sql, values);
    },
    run: async (sql, values) => {
      await look(sql, values);
      return await tx.run(sql, values);
    },
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
