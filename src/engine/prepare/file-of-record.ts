import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import type { RecordFile } from '../../core/records.ts';
import { missingParams } from '../../definitions/check-params.ts';
import { convertValue } from '../../definitions/convert-value.ts';
import type { Action } from '../../definitions/definition.ts';
import { canonicalJson, shortHash } from './canonical-json.ts';

const maxTextChars = 1_000;

type FileOfRecord = (raw: JsonValue, inject: Readonly<Record<string, JsonValue>>) => RecordFile | null;

/**
 * Finds out how a record's file is asked for; null: the entity has no `download`. The function gives null where a
 * parameter has no value: no file.
 */
export function compileFileOfRecord(download: Action | null): FileOfRecord | null {
  const fields = download?.file ?? null;
  if (download === null || fields === null) return null;

  return (raw, inject) => {
    const members = isJsonObject(raw) ? raw : {};
    const valueOf = (field: string): JsonValue => memberOf(inject, field) ?? memberOf(members, field) ?? null;
    const params: Record<string, JsonValue> = {};
    for (const [name, field] of download.key) {
      const param = download.params.get(name);
      const value = param === undefined ? null : convertValue(param.type, valueOf(field));
      if (value === null || value === '') return null;
      params[name] = value;
    }
    if (missingParams(download, params).length > 0) return null;
    return {
      params,
      version: shortHash(canonicalJson([params, fields.version.map(valueOf)])),
      name: textOf(fields.name === null ? null : valueOf(fields.name)),
      contentType: textOf(fields.contentType === null ? null : valueOf(fields.contentType)),
      size: sizeOf(fields.size === null ? null : valueOf(fields.size)),
    };
  };
}

/** A lone surrogate would not come back from the ledger as it went in. */
function textOf(value: JsonValue): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, maxTextChars).toWellFormed() : null;
}

function sizeOf(value: JsonValue): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
