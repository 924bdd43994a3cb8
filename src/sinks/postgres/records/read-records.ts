export const openPostgresRecords: any = () => { throw new Error('later'); };
export const openPostgresKeys: any = () => { throw new Error('later'); };
