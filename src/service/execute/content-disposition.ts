import { safeBase } from '../../sinks/files/safe-file-name.ts';

/**
 * `attachment` with a file's name as RFC 6266 has it. The third party's name is first made harmless in any folder and on any
 * terminal; `filename*` holds it whole, and a plain `filename` beside it serves clients that know no other. Pure ASCII whatever
 * the name, so nothing in one can begin another header.
 */
export function contentDisposition(name: string): string {
  if (name === '') return 'attachment';
  const safe = safeBase(name);
  const plain = safe.replace(/[^ !#$&'()+,\-.0-9;=@A-Z[\]^_`a-z{}~]/gu, '_');
  const quoted = `attachment; filename="${plain}"`;
  return plain === safe ? quoted : `${quoted}; filename*=UTF-8''${encoded(safe)}`;
}

/** RFC 5987: what `encodeURIComponent` leaves and an extended value may not hold is written in hex, too. */
function encoded(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
