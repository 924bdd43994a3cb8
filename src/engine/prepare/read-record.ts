import type { JsonValue } from '../../core/json.ts';
import type { PreparedRecord } from '../../core/records.ts';
import { compileFileOfRecord } from './file-of-record.ts';
import { compilePrepare, type Prepared } from './prepare-record.ts';
import type { ShownRecord } from './recognize-records.ts';
import type { RecordShape } from './record-shape.ts';

/**
 * Prepares a record of a page: as its row says, where that was stored from the same bytes, else from its values. Throws
 * as `compilePrepare`.
 */
export function compileReadRecord(shape: RecordShape) {
  const prepare = compilePrepare(shape);
  const fileOf = compileFileOfRecord(shape.download ?? null);

  function read({ records, index, raw }: ShownRecord, inject: Inject): Prepared {
    return withRaw(prepare(records.value(index), inject), raw);
  }

  return (shown: ShownRecord, inject: Inject): Prepared => {
    const { same, glance } = shown;
    if (same === null) return read(shown, inject);
    const whole = (): PreparedRecord => {
      const prepared = read(shown, inject);
      if (prepared.kind === 'record') return prepared.record;
      throw new TypeError(`a record that was stored before is now refused: ${prepared.refused.reason}`);
    };
    const { keyText, values, raw, hash, volatileHash, found } = same;
    // Written out: this is most of what a record costs that has not changed.
    const record = { keyText, values, raw, hash, volatileHash, extra: null, whole, found };
    // Nothing about it is new.
    if (fileOf === null) return { kind: 'record', drift: [], extraFields: 0, record };
    return { kind: 'record', drift: [], extraFields: 0, record: { ...record, file: fileOf(glance, inject) } };
  };
}

type Inject = Readonly<Record<string, JsonValue>>;

/**
 * Remembers the record by its bytes where its row holds all of it. Fields without a column and quarantined records must
 * be reported by each run, so they are read each time.
 */
function withRaw(prepared: Prepared, raw: string | null): Prepared {
  if (raw === null || prepared.kind === 'refused') return prepared;
  if (prepared.drift.length > 0 || prepared.extraFields > 0) return prepared;
  const { record, drift, extraFields } = prepared;
  const { keyText, hash, volatileHash, values, extra, file } = record;
  const known = { keyText, hash, volatileHash, values, extra, raw };
  return { kind: 'record', drift, extraFields, record: file === undefined ? known : { ...known, file } };
}
