import { factNames, type FactName, type FactRow, type FactValue } from '../copies.ts';
import { ledgerSql } from '../ledger/schema.ts';

/**
 * `run`: the number of a run, `partition`: the id of a partition, as the source has them; 0 stands for none. `order`: a
 * target gives new numbers, in this order.
 */
type Meaning = 'text' | 'integer' | 'run' | 'partition' | 'order' | 'bytes';

export interface FactColumn {
  readonly name: string;
  readonly meaning: Meaning;
}

/** Columns of numbers other than counts. */
const numbers: Readonly<Record<string, Meaning>> = {
  'runs.number': 'run',
  'quarantine.id': 'order',
  'downloads.id': 'order',
  'actions.id': 'order',
  'partitions.id': 'partition',
  origin: 'run',
  full_origin: 'run',
  sweep_origin: 'run',
  base: 'partition',
  tree: 'partition',
  partition: 'partition',
};

const plain: Readonly<Record<string, Meaning>> = { TEXT: 'text', BYTEA: 'bytes' };

const columnLists = new Map(
  factNames.map((fact) => {
    const definition =
      new RegExp(`^CREATE TABLE _[a-z]+_${fact} \\(([^;]*);`, 'm').exec(ledgerSql)?.[1] ?? '';
    const columns = [...definition.matchAll(/^ {2}"?([a-z]\w*)"? (TEXT|BIGINT|INTEGER|BYTEA)\b/gm)];
    const all = columns.map(([, name = '', type = '']): FactColumn => {
      const meaning = plain[type] ?? numbers[`${fact}.${name}`] ?? numbers[name] ?? 'integer';
      return { name, meaning };
    });
    // Hashes are those of other columns.
    return [fact, all.filter(({ name }) => name !== 'connector' && !/^(params|parent|key)_hash$/.test(name))];
  }),
);

/** As `ledger/schema.ts` has them. */
export function factColumns(fact: FactName): readonly FactColumn[] {
  return columnLists.get(fact) ?? [];
}

/** What is to be added to numbers of the source so that they are free in the target. */
interface Shift {
  readonly runs: number;
  readonly partitions: number;
}

/** The rows with numbers of the target. */
export function shifted(fact: FactName, rows: readonly FactRow[], shift: Shift): readonly FactRow[] {
  const moving = factColumns(fact).flatMap(({ name, meaning }) =>
    meaning === 'run'
      ? [[name, shift.runs] as const]
      : meaning === 'partition'
        ? [[name, shift.partitions] as const]
        : [],
  );
  if (moving.length === 0) return rows;
  return rows.map((row) => {
    const moved: Record<string, FactValue> = { ...row };
    for (const [name, by] of moving) moved[name] = movedNumber(row[name] ?? null, by);
    return moved;
  });
}

/** 0 and null stand for none. */
export function movedNumber<Value extends FactValue>(value: Value, by: number): Value | number {
  return typeof value === 'number' && value !== 0 ? value + by : value;
}
