/**
 * A whole number of 52 bits from a text (FNV-1a twice, mixed as at the end of MurmurHash3): cheap and evenly spread.
 * Texts with the same number can be made on purpose, so it is for sets that may take two texts for one.
 */
export function textNumber(text: string): number {
  let high = 0x811c9dc5;
  let low = 0x9dc5811c;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ code, 0x5bd1e995);
  }
  return (mixed(high) & 0xfffff) * 2 ** 32 + (mixed(low ^ text.length) >>> 0);
}

function mixed(bits: number): number {
  let mix = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return mix ^ (mix >>> 16);
}
