import type { EntityName } from '../../core/names.ts';
import type { JsonValue } from '../../core/json.ts';
import type { Quarantined, QuarantineReason } from '../../core/records.ts';
import { wholeJson } from './canonical-json.ts';

const maxQuarantinedChars = 1024 * 1024;

/** The record for the quarantine: whole, except where its size is what it is refused for. */
export function refuseRecord(
  entity: EntityName,
  reason: QuarantineReason,
  detail: string,
  raw: JsonValue,
): Quarantined {
  const text = wholeJson(raw);
  const isCut = text.length > maxQuarantinedChars && (reason === 'too-deep' || reason === 'too-large');
  return {
    entity,
    reason,
    detail: isCut
      ? `${detail}; the first ${maxQuarantinedChars} of ${text.length} characters are kept`
      : detail,
    record: isCut ? text.slice(0, maxQuarantinedChars) : text,
  };
}
