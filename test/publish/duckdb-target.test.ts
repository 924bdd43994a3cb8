import path from 'node:path';
import { describe } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb/duckdb-target.ts';
import type { Target } from '../../src/publish/target.ts';
import { isLong } from '../support/trials.ts';
import { targetContract, untilEnd, type TargetKind } from '../contracts/target-contract.ts';
import { duckdbTableRows } from '../support/publish/read-tables.ts';
import { tableOf } from '../support/publish/stored-model.ts';

function fileOf(folder: string): string {
  return path.join(folder, 'desk.duckdb');
}

function open(folder: string): Target {
  return openDuckdbTarget({ path: fileOf(folder), keepMs: null, clock: systemClock, signal: untilEnd });
}

describe('a target in a DuckDB file', () => {
  const kind: TargetKind = {
    open: async (folder) => open(folder),
    rows: async (folder, entity) =>
      await duckdbTableRows(fileOf(folder), { connector: entity.connector, table: tableOf(entity) }),
  };
  targetContract(kind, isLong);
});
