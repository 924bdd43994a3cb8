import path from 'node:path';
import { describe } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { keyTextOf, type ColumnValue } from '../../src/core/records.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb/duckdb-target.ts';
import type { Target } from '../../src/publish/target.ts';
import { isLong } from '../support/trials.ts';
import { targetContract, untilEnd, type TargetKind } from '../contracts/target-contract.ts';
import { askDuckdbFile, duckdbTexts } from '../support/publish/read-duckdb-file.ts';
import { identifier } from '../support/publish/duckdb.ts';

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

function open(folder: string): Target {
  return openDuckdbTarget({ path: fileOf(folder), keepMs: null, clock: systemClock, signal: untilEnd });
}

describe('a target in a DuckDB file', () => {
  const kind: TargetKind = {
    open: async (folder) => open(folder),
    rows: async (folder, { connector, entity, columns, key }) => {
      const sql = `SELECT * FROM ${identifier(connector)}.${identifier(entity)}`;
      const found = await askDuckdbFile(fileOf(folder), sql);
      return new Map(
        found.map((row) => {
          const texts = duckdbTexts(row);
          const parts = key.map((name): ColumnValue => {
            const text = texts[name] ?? null;
            const isInteger = columns.some((column) => column.name === name && column.type === 'integer');
            return isInteger && text !== null ? BigInt(text) : text;
          });
          return [keyTextOf(parts), texts];
        }),
      );
    },
  };
  targetContract(kind, isLong);
});
