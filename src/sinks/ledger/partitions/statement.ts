import type { Tx, Values } from '../../../sql/postgres/session.ts';

/** One statement; gives how many rows it wrote. */
export type Write<Given extends Values> = (tx: Tx, at: string, values: Given) => Promise<number>;
/** One statement; gives the rows that it wrote or read. */
export type Ask<Given extends Values, Row extends object> = (
  tx: Tx,
  at: string,
  values: Given,
) => Promise<readonly Row[]>;

/** One statement, which travels with the next one that is waited for, or with the COMMIT. */
export type Put<Given extends Values> = (tx: Tx, at: string, values: Given) => void;

/** `sql` gets the schema with the point behind it, and names the values as `:name`. */
export function write<Given extends Values>(sql: (at: string) => string): Write<Given> {
  return async (tx, at, values) => await tx.run(sql(at), values);
}

export function put<Given extends Values>(sql: (at: string) => string): Put<Given> {
  return (tx, at, values) => {
    tx.put(sql(at), values);
  };
}

export function ask<Given extends Values, Row extends object>(sql: (at: string) => string): Ask<Given, Row> {
  return async (tx, at, values) => await tx.rows<Row>(sql(at), values);
}
