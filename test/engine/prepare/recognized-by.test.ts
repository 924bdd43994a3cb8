import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { writeJson } from '../../../src/core/json-text.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { FieldType } from '../../../src/core/records.ts';
import {
  compilePrepare,
  readingVersion,
  type RecordShape,
} from '../../../src/engine/prepare/prepare-record.ts';
import { scanPage } from '../../../src/http/scan-json.ts';
import { readRecords, unreadRecords } from '../../../src/source/source.ts';
import { recorded } from '../../support/recorded-records.ts';

function scanned(text: string) {
  const page = scanPage(Buffer.from(text), [['result']], 500);
  if (page === null) throw new Error(`expected a page, got ${text.slice(0, 200)}`);
  return page;
}

describe('the members by which a record is recognized', () => {
  it('are those that it has as a whole', () => {
    const text = '{"result":[{"a":1,"\\u0062":{"c":[2,3]},"a":"x\\"y","d":null},[1],"s",{}]}';
    const unread = unreadRecords(scanned(text));
    const read = readRecords([...unread]);
    const names = new Set(['a', 'b', 'z']);
    expect([0, 1, 2, 3].map((index) => unread.glance(index, names))).toEqual([
      { a: 'x"y', b: { c: [2, 3] } },
      [1],
      's',
      {},
    ]);
    expect([...unread]).toEqual([...read]);
  });
});

describe('what is stored of a record', () => {
  it('is the same in every program of this reading version: raise it where this digest changes', () => {
    const stored = recorded.map(({ record }) => compilePrepare(shapeOf(record))(record, {}));
    expect({
      readingVersion,
      digest: hash('sha256', writeJson(stored), 'hex').slice(0, 16),
    }).toMatchInlineSnapshot(`
      {
        "digest": "7b2e327b77d3cec5",
        "readingVersion": 1,
      }
    `);
  });
});

/** Without a definition, which may change by itself. */
function shapeOf(record: JsonObject): RecordShape {
  const columns = Object.entries(record).map(([name, value]) => ({ name, type: typeOf(value) }));
  const isKey = ({ name }: { readonly name: string }): boolean => name === 'id' || name.endsWith('_id');
  const key = columns.filter(isKey).map(({ name }) => name);
  const table = { entity: 'some' as EntityName, columns: columns.slice(0, -1), key };
  return { table, ignored: new Set(), volatile: [[columns[2]?.name ?? '', '*']], explodedField: null };
}

function typeOf(value: JsonValue): FieldType {
  const type = typeof value;
  if (Array.isArray(value)) return 'array';
  if (type === 'string' || type === 'number' || type === 'boolean') return type;
  return value === null ? 'any' : 'object';
}
