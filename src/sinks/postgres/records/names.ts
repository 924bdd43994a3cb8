import { createHash } from 'node:crypto';
import { indexSuffixes } from '../../records/own-names.ts';

/** PostgreSQL truncates longer names, and only raises a notice. */
const mostBytes = 63;
const mostTableBytes = mostBytes - indexSuffixes.owner.length;
const hashLength = 10;

/**
 * `<connector>__<entity>` with `-` as `_`: unique, because neither name may hold two underscores in a row. One that is
 * too long keeps its beginning and gets a hash of the whole after three underscores, which no other name has.
 * `_sync_tables` has the name too.
 */
export function tableName(connector: string, entity: string): string {
  const whole = `${connector.replaceAll('-', '_')}__${entity}`;
  if (whole.length <= mostTableBytes) return whole;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, hashLength);
  return `${whole.slice(0, mostTableBytes - hashLength - 3)}___${hash}`;
}
