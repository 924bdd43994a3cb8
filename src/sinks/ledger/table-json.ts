import * as z from 'zod';
import type { Column } from '../../core/records.ts';

/** Lists of columns and names as `_sync_tables` holds them. */
export function writeColumns(columns: readonly Column[]): string {
  return JSON.stringify(columns.map(({ name, type }) => ({ name, type })));
}

export function parseColumns(text: string): readonly Column[] {
  return columnList.parse(JSON.parse(text));
}

export function parseNames(text: string): readonly string[] {
  return z.array(z.string()).parse(JSON.parse(text));
}

const columnList = z.array(
  z.object({
    name: z.string(),
    type: z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']),
  }),
);
