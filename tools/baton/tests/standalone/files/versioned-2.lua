return { name = "versioned" }
