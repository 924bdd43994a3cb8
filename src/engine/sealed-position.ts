import { readJson, writeJson } from '../core/json-text.ts';
import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Position } from '../sinks/partition.ts';

const sealedKind = 'sealed';

type Masked = Pick<Entity, 'mask'>;

/** The position as it is stored: of a masked entity it may hold values of records, in a page token say. */
export function sealPosition({ mask }: Masked, position: Position): Position {
  return mask === null ? position : { kind: sealedKind, text: mask.seal(writeJson(position)) };
}

/** The stored position; null where it was stored with another mask or with none: the walk starts from the beginning. */
export function openPosition({ mask }: Masked, stored: Position | null): Position | null {
  if (mask === null) return stored?.kind === sealedKind ? null : stored;
  const text = typeof stored?.['text'] === 'string' ? mask.open(stored['text']) : null;
  const opened = text === null ? null : readJson(text);
  return isPosition(opened) ? opened : null;
}

function isPosition(value: JsonValue): value is Position {
  return isJsonObject(value) && typeof value['kind'] === 'string';
}
