const maxNameBytes = 255;
const maxExtensionLength = 16;

/**
 * `attachment` with a file's name as RFC 6266 has it: exactly as the third party names it in `filename*`, with a plain
 * `filename` beside it for clients that know no other. Pure ASCII whatever the name, so nothing in one can begin another
 * header. Who stores the file must still not trust the name: it may be a path, or reserved.
 */
export function contentDisposition(name: string): string {
  const bounded = shorten(name.toWellFormed());
  if (bounded === '') return 'attachment';
  const plain = plainName(bounded);
  const quoted = `attachment; filename="${plain}"`;
  return plain === bounded ? quoted : `${quoted}; filename*=UTF-8''${encoded(bounded)}`;
}

/**
 * Everything that has a meaning in a quoted text, in a path or in an encoding of texts becomes `_`, and so does what is not
 * ASCII. No name is left that a file system reads as a folder.
 */
function plainName(name: string): string {
  const plain = Array.from(name, (sign) =>
    /^[ !#$&'()+,\-.0-9;=@A-Z[\]^_`a-z{}~]$/.test(sign) ? sign : '_',
  ).join('');
  return /^\.*$/.test(plain) ? plain.replaceAll('.', '_') : plain;
}

/** RFC 5987: what `encodeURIComponent` leaves and an extended value may not hold is written in hex, too. */
function encoded(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** As long as names of files may be at most; a short extension stays. Clients refuse headers of many kilobytes. */
function shorten(name: string): string {
  if (name.length <= maxNameBytes && Buffer.byteLength(name) <= maxNameBytes) return name;
  const dot = name.lastIndexOf('.');
  const extension = dot > 0 && name.length - dot <= maxExtensionLength ? name.slice(dot) : '';
  const room = maxNameBytes - Buffer.byteLength(extension);
  let kept = '';
  let bytes = 0;
  for (const sign of name) {
    bytes += Buffer.byteLength(sign);
    if (bytes > room) break;
    kept += sign;
  }
  return kept + extension;
}
