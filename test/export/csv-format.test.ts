import { describe, expect, it } from 'vitest';
import type { EntityName, RunId } from '../../src/core/names.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { csvFormat } from '../../src/export/exported-changes.ts';
import type { StoredRecord } from '../../src/sinks/readings.ts';

describe('CSV', () => {
  const table: EntityTable = {
    entity: 'things' as EntityName,
    columns: [
      { name: 'id', type: 'string' },
      { name: 'count', type: 'integer' },
      { name: 'share', type: 'number' },
      { name: 'is_on', type: 'boolean' },
      { name: 'more', type: 'object' },
    ],
    key: ['id'],
  };
  const written = (change: Partial<StoredRecord>, isSafeForSpreadsheets = false): string =>
    csvFormat(table, { isSafeForSpreadsheets }).text({
      isDeleted: false,
      seq: 7,
      changedAt: '2026-01-01T00:00:00.000Z',
      run: 'r' as RunId,
      values: ['x', null, null, null, null],
      extra: null,
      ...change,
    });
  const tail = '2026-01-01T00:00:00.000Z,r\r\n';

  it('quotes what RFC 4180 wants quoted, tells absent from empty, and keeps digits', () => {
    expect(written({ values: ['a,b', 9007199254740993n, 2 ** 60, 1, '{"a":"b"}'] })).toBe(
      `"a,b",9007199254740993,1152921504606846976,true,"{""a"":""b""}",,upsert,7,${tail}`,
    );
    expect(written({ values: ['', null, -0.5, 0, null], extra: '{"x":1}' })).toBe(
      `"",,-0.5,false,,"{""x"":1}",upsert,7,${tail}`,
    );
    expect(written({ values: ['say "hi"\r\nthere', null, null, null, null] })).toBe(
      `"say ""hi""\r\nthere",,,,,,upsert,7,${tail}`,
    );
  });

  it('writes of a deleted record the key alone', () => {
    expect(written({ isDeleted: true, values: ['x', 1, 1, 1, '{}'], extra: '{}' })).toBe(
      `x,,,,,,delete,7,${tail}`,
    );
  });

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx'])(
    'leaves %j as it is, unless the file is for a spreadsheet',
    (text) => {
      const plain = written({ values: [text, -1, null, null, null] });
      expect(plain.replace(/^"/, '').startsWith(text)).toBe(true);
      const safe = written({ values: [text, -1, null, null, null] }, true);
      expect(safe.replace(/^"/, '').startsWith(`'${text}`)).toBe(true);
      // A number is no formula.
      expect(safe).toContain(',-1,');
    },
  );
});
