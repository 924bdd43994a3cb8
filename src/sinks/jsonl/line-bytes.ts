const chunkBytes = 256 * 1024;
/** UTF-8 takes no more for a UTF-16 code unit. */
const mostBytesOfUnit = 3;

/**
 * Texts as UTF-8, one behind the other in chunks, encoded when they are added: kept as strings until a commit, the
 * pieces of thousands of lines cost the garbage collector more than writing them.
 */
export function lineBytes() {
  let full: Buffer[] = [];
  let chunk = Buffer.alloc(0);
  let used = 0;

  const endChunk = (): void => {
    if (used > 0) full.push(chunk.subarray(0, used));
    chunk = Buffer.alloc(0);
    used = 0;
  };
  return {
    isEmpty: () => full.length === 0 && used === 0,
    add: (text: string): void => {
      const most = mostBytesOfUnit * text.length;
      if (used + most > chunk.length) endChunk();
      if (most > chunkBytes) {
        full.push(Buffer.from(text));
        return;
      }
      if (chunk.length === 0) chunk = Buffer.allocUnsafeSlow(chunkBytes);
      used += chunk.write(text, used);
    },
    /** In the order in which they were added. */
    chunks: (): readonly Buffer[] => {
      endChunk();
      return full;
    },
    clear: (): void => {
      full = [];
      chunk = Buffer.alloc(0);
      used = 0;
    },
  };
}
