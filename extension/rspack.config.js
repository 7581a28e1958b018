// Named ids: two checkouts in different folders give the same bytes.
module.exports = { optimization: { moduleIds: 'named', chunkIds: 'named' } };
