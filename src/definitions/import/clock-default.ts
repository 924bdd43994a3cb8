import type { JsonObject, JsonValue } from '../../core/json.ts';

const formats: Readonly<Record<string, string>> = {
  '%Y-%m-%d': 'date',
  '%Y%m%d': 'compactDate',
  '%Y%m%dT%H': 'compactHour',
  '%Y-%m-%dT%H:%M:%SZ': 'dateTime',
};

const form =
  /^\{\{ *(?:now_utc\(\)|\(now_utc\(\) *([+-]) *duration\('P(\d{1,4})D'\)\))\.strftime\('([^']+)'\) *\}\}$/;

/**
 * A default that is a time so many days before or after now, as a definition says it: the one kind of template that is
 * known, matched and never run. Null: it is none.
 */
export function clockDefault(value: JsonValue | undefined): JsonObject | null {
  const [whole, sign, days = '0', written = ''] = form.exec(typeof value === 'string' ? value : '') ?? [];
  const format = Object.hasOwn(formats, written) ? formats[written] : undefined;
  if (whole === undefined || format === undefined) return null;
  return { days: sign === '-' ? -Number(days) : Number(days), format };
}
